"""The dialogue: commands carried out on a state, and the next step. Pure."""
