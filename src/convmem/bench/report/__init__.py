"""From the rows of a benchmark to tables, plots and one page. Knows results and numbers; runs nothing."""
