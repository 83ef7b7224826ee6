"""What decides a turn: the program, its policy and its deciders."""
