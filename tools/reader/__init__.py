"""Data and training of the reader: invented domains, drawn turns, the model, its export."""
