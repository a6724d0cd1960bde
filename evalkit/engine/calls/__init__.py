"""Send requests, store replies: limits, retries, budget and single flight, on one event-loop thread. No pandas."""
