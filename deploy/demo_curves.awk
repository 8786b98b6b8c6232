# Draws two learning curves as text, from the events of two campaigns (fulcrum campaign watch --json).
#   awk -v names='chosen,random' -v marks='*,o' -v colors=1 -v last=200 -f demo_curves.awk chosen.events chance.events
# With -v what=summary it prints what the first campaign saved; with -v what=rows the points as a table.

FNR == 1 { file++ }
/"model":\{/ && /"accuracy":[0-9.e-]+\},"time"/ {
  match($0, /"model":\{"round":"[0-9]+","labels":"[0-9]+"/)
  split(substr($0, RSTART, RLENGTH), parts, "\"")
  labels = parts[10] + 0
  match($0, /"accuracy":[0-9.e-]+\},"time"/)
  value = substr($0, RSTART + 11) + 0
  if (count[file] == 0 || x[file, count[file]] != labels) count[file]++
  x[file, count[file]] = labels
  y[file, count[file]] = value
  if (value > best[file]) best[file] = value
  if (lowest == 0 || value < lowest) lowest = value
}

# The value of a curve at a number of labels, between its points; -1 outside.
function at(curve, labels,    i, share) {
  for (i = 1; i < count[curve]; i++) {
    if (labels >= x[curve, i] && labels <= x[curve, i + 1]) {
      share = (labels - x[curve, i]) / (x[curve, i + 1] - x[curve, i])
      return y[curve, i] + share * (y[curve, i + 1] - y[curve, i])
    }
  }
  return -1
}

# Labels at which a curve first reached a value; 0 if it did not.
function first_at(curve, value,    i) {
  for (i = 1; i <= count[curve]; i++) if (y[curve, i] >= value - 1e-9) return x[curve, i]
  return 0
}

function painted(curve, text) { return colors ? "\033[" (curve == 1 ? "1;34" : "33") "m" text "\033[0m" : text }

function draw(    columns, rows, low, row, column, value, line, tick, curve, place) {
  columns = 60; rows = 12; low = int(10 * lowest) / 10
  if (low > 0.9) low = 0.9
  for (row = rows; row >= 0; row--) {
    line = row % 3 == 0 ? sprintf("   %4d%% |", 100 * (low + (1 - low) * row / rows) + 0.5) : "         |"
    for (column = 0; column <= columns; column++) {
      tick = " "
      for (curve = 2; curve >= 1; curve--) {
        value = at(curve, last * column / columns)
        if (value >= 0 && int((value - low) / (1 - low) * rows + 0.5) == row) tick = painted(curve, mark[curve])
      }
      line = line tick
    }
    print line
  }
  line = "         +"
  for (column = 0; column <= columns; column++) line = line (column % 15 == 0 ? "+" : "-")
  print line
  line = ""
  for (place = 0; place <= 4; place++) line = line sprintf("%-15s", last * place / 4)
  print "          " line "labels"
  for (curve = 1; curve <= 2; curve++) {
    printf "   %s %-26s %s\n", painted(curve, mark[curve]), name[curve], count[curve] == 0 ? "no model yet" : \
      sprintf("%3d labels, %.1f%% of the test examples are right", x[curve, count[curve]], 100 * y[curve, count[curve]])
  }
}

function summary(    level, chosen_at, random_at) {
  if (count[1] == 0 || count[2] == 0) { print "   No model was trained."; return }
  level = int(100 * best[2] + 1e-9) / 100
  random_at = first_at(2, level)
  chosen_at = first_at(1, level)
  if (chosen_at == 0) {
    printf "   %s reached %d percent after %d labels; %s did not get there this time.\n", name[2], 100 * level, random_at, name[1]
  } else if (chosen_at >= random_at) {
    printf "   %d percent after %d labels; random needed %d. Nothing was saved this time.\n", 100 * level, chosen_at, random_at
  } else {
    printf "   %d percent after %d labels; random needed %d. That is %d percent fewer labels.\n", 100 * level, chosen_at,
      random_at, 100 * (1 - chosen_at / random_at) + 0.5
  }
}

END {
  split(names, name, ",")
  split(marks, mark, ",")
  if (what == "summary") summary()
  else draw()
}
