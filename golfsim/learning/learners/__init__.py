"""The learners that come with golfsim."""
