# What it computes is said in behaviour.yaml.
