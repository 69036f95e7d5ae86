"""The predictors that come with the package, one a file: `predictor=NAME`. See `docs/predictors.md`."""
