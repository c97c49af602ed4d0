"""Inside a rank: run the script, see every operation, tell the launcher. Only here is torch known all over."""
