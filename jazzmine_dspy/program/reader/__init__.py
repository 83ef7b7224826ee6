"""The reader: one small trained network that reads a message in its state over flows given at call time."""
