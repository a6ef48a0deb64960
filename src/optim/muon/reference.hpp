// Muon in double precision, for reading and for testing: the formulas of kind.cpp and newton_schulz.hpp as plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.hpp"
#include "optim/muon/newton_schulz.hpp"

namespace cohort::muon::reference {

struct Matrix {
  Count rows, columns;
  std::vector<double> elements;  // row-major

  double& at(Count i, Count j) { return elements[static_cast<std::size_t>(i * columns + j)]; }
  double at(Count i, Count j) const { return elements[static_cast<std::size_t>(i * columns + j)]; }
};

inline Matrix zeros(Count rows, Count columns) {
  return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns), 0.0)};
}

inline Matrix transposed(const Matrix& a) {
  Matrix t = zeros(a.columns, a.rows);
  for (Count i = 0; i < a.rows; ++i) {
    for (Count j = 0; j < a.columns; ++j) t.at(j, i) = a.at(i, j);
  }
  return t;
}

inline Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c = zeros(a.rows, b.columns);
  for (Count i = 0; i < a.rows; ++i) {
    for (Count k = 0; k < a.columns; ++k) {
      for (Count j = 0; j < b.columns; ++j) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

inline Matrix sum(double factor_a, const Matrix& a, double factor_b, const Matrix& b) {
  Matrix c = a;
  for (std::size_t i = 0; i < c.elements.size(); ++i) c.elements[i] = factor_a * a.elements[i] + factor_b * b.elements[i];
  return c;
}

inline Matrix orthogonalized(const Matrix& g, Count steps) {
  if (g.rows > g.columns) return transposed(orthogonalized(transposed(g), steps));
  double squares = 0.0;
  for (const double element : g.elements) squares += element * element;
  Matrix x = sum(1.0 / (std::sqrt(squares) + 1e-7), g, 0.0, g);
  for (Count step = 0; step < steps; ++step) {
    const Matrix gram = product(x, transposed(x));
    x = sum(double{kA}, x, 1.0, product(sum(double{kB}, gram, double{kC}, product(gram, gram)), x));
  }
  return x;
}

struct Settings {
  double learning_rate, momentum, weight_decay, gradient_scale;
  Count newton_schulz_steps;
};

/// One step of one matrix: the momentum, which begins at 0, and the weights.
inline void step(Matrix& weights, Matrix& momentum, const Matrix& gradient, const Settings& s) {
  const Matrix g = sum(s.gradient_scale, gradient, 0.0, gradient);
  momentum = sum(s.momentum, momentum, 1.0, g);
  const Matrix update = orthogonalized(sum(1.0, g, s.momentum, momentum), s.newton_schulz_steps);
  const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(weights.rows, weights.columns)));
  weights = sum(1.0 - s.learning_rate * s.weight_decay, weights, -s.learning_rate * scale, update);
}

}  // namespace cohort::muon::reference
