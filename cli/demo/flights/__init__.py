"""The main job, on real flights, with a kill and a report."""
