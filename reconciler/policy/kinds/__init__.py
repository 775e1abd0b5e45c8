"""The kinds of policies, one file each: the only definition of every field, its default and its description."""
