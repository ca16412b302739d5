"""Archive, back up and copy state directories while no coordinator has them open."""
