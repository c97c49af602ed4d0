"""Labs: checking a program on real ranks, the verdict, the screen. Their files are read in curriculum/."""
