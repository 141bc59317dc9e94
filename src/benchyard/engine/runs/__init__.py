"""What was run: scenario runs and benchmark runs, their scores, and how those come about."""
