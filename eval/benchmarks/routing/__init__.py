"""What ``make bench-routing`` measures with: parts held apart, peers, and the table."""
