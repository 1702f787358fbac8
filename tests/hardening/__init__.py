"""What people and machines do to the command line: bad input, full disks, kill -9. Real commands, real databases."""
