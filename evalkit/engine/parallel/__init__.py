"""Many processes: files of judgments, joblib, Ray and Dask."""
