"""Node types for lists and objects: filter, sort, group, merge and the like. All are pure."""
