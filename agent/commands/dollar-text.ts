/** As `$0.0000357`: never with an exponent. */
export const dollarText = (dollars: number, digits = 3): string => `$${plainNumber(dollars, digits)}`

/** Rounded to some digits, with the commas of thousands. */
export const plainNumber = (value: number, digits = 3): string =>
  Number(value.toPrecision(digits)).toLocaleString('en-US', { maximumFractionDigits: 12 })
