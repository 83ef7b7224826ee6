-- Run at each start; what is there already stays.
CREATE TABLE IF NOT EXISTS prices (service TEXT PRIMARY KEY, pounds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS patients (
    name TEXT PRIMARY KEY COLLATE NOCASE, species TEXT NOT NULL, phone TEXT NOT NULL, action TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS appointments (
    id INTEGER PRIMARY KEY, pet TEXT NOT NULL COLLATE NOCASE, service TEXT NOT NULL, day TEXT NOT NULL,
    time TEXT NOT NULL, cancelled INTEGER NOT NULL DEFAULT 0, action TEXT UNIQUE);
CREATE UNIQUE INDEX IF NOT EXISTS one_at_a_time ON appointments (day, time) WHERE NOT cancelled;

INSERT OR IGNORE INTO prices VALUES
    ('check-up', 45), ('vaccination', 52), ('dental cleaning', 180), ('nail trim', 18), ('microchip', 25);
INSERT OR IGNORE INTO patients VALUES
    ('Bella', 'dog', '+447700900123', NULL), ('Milo', 'cat', '+447700900456', NULL),
    ('Nugget', 'rabbit', '+447700900789', NULL);
INSERT OR IGNORE INTO appointments VALUES
    (101, 'Bella', 'vaccination', date('now', '+1 day', 'weekday 1'), '10:00', 0, NULL),
    (102, 'Milo', 'check-up', date('now', '+2 days', 'weekday 3'), '15:30', 0, NULL);
