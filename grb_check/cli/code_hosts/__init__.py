"""Clients of GitHub and GitLab: the pull request of a CI job, and the comments on it."""
