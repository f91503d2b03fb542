"""What people and programs read: rows, tables and pictures."""
