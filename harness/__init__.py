"""The benchmark: domains, models, teachers, training, trials, studies, reports."""
