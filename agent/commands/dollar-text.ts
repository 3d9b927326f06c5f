/** As `$0.0000357`: never with an exponent. */
export const dollarText = (dollars: number, digits = 3): string => `$${plainNumber(dollars, digits)}`

const leastDollars = 1e-6

/** Of an answer or a part of it. */
export const costText = (dollars: number): string =>
  dollars > 0 && dollars < leastDollars ? `under ${dollarText(leastDollars)}` : dollarText(dollars, 2)

/** Rounded to some digits, with the commas of thousands. */
export const plainNumber = (value: number, digits = 3): string =>
  Number(value.toPrecision(digits)).toLocaleString('en-US', { maximumFractionDigits: 12 })
