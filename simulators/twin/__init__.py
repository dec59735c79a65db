"""Applications that stand in for real servers, behind their tools' exact schemas."""
