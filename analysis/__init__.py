"""What a journal tells: its operations as rows for Spark, and the questions an operator asks of them."""
