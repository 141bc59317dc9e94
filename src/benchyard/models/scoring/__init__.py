"""Files of scenarios' scorers and solutions: attachments, exports and reference outputs."""
