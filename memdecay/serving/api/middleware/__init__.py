"""What every request passes before its route: log, key, body, admission."""
