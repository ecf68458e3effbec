//! Columns of text for people.

/// Between two columns.
const GAP: usize = 3;

/// Lines of cells under headers.
pub struct Table {
    headers: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl Table {
    /// A table without lines.
    pub fn new(headers: &[&str]) -> Table {
        Table { headers: headers.iter().map(ToString::to_string).collect(), lines: Vec::new() }
    }

    /// Adds a line; an empty cell is shown as `-`.
    pub fn push(&mut self, cells: Vec<String>) {
        self.lines.push(cells);
    }

    /// How wide each column is, at least as wide as in `before`.
    pub fn widths(&self, before: &[usize]) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column));
            let widest = cells.chain(self.headers.get(column)).map(|cell| cell.chars().count()).max();
            widest.unwrap_or(1).max(before.get(column).copied().unwrap_or(1))
        };
        (0..self.headers.len()).map(width).collect()
    }

    /// The text, without a newline at its end.
    pub fn text(&self, widths: &[usize], with_headers: bool) -> String {
        let headers = with_headers.then_some(&self.headers);
        let lines = headers.into_iter().chain(&self.lines).map(|line| aligned(line, widths));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text(&self.widths(&[]), true))
    }
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::new();
    for (cell, width) in cells.iter().zip(widths) {
        let cell = if cell.is_empty() { "-" } else { cell };
        text.push_str(cell);
        let padding = (width + GAP).saturating_sub(cell.chars().count());
        text.extend(std::iter::repeat_n(' ', padding));
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_spaces() {
        let mut table = Table::new(&["NAME", "NODE"]);
        table.push(vec!["payments".into(), String::new()]);
        table.push(vec!["a".into(), "node-a".into()]);
        assert_eq!(table.to_string(), "NAME       NODE\npayments   -\na          node-a");
    }
}
