"""From items to judgments: specification, work list, look-up of replies, plan, calls, batches."""
