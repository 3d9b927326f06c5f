/** `1.2.3`, `1.2.3-rc.1` or `1.2.3+commit`. */
const versionForm = /^(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$/
const conditionForm = /^(<=|>=|<|>|=)?(\d.*)$/

/**
 * Compares two versions as Semantic Versioning 2.0.0 §11 orders them; what follows a `+` does not count.
 * @returns negative, zero or positive; undefined if either is no version
 */
export function compareVersions(a: string, b: string): number | undefined {
  const [left, right] = [versionForm.exec(a), versionForm.exec(b)]
  if (!left || !right) return undefined
  for (const at of [1, 2, 3]) if (left[at] !== right[at]) return Number(left[at]) - Number(right[at])
  return comparePrereleases(left[4], right[4])
}

function comparePrereleases(a: string | undefined, b: string | undefined): number {
  if (a === undefined || b === undefined) return Number(a === undefined) - Number(b === undefined)
  const [left, right] = [a.split('.'), b.split('.')]
  for (const [at, one] of left.entries()) {
    const other = right[at]
    if (other === undefined) return 1
    if (one === other) continue
    const [isNumber, isOtherNumber] = [/^\d+$/.test(one), /^\d+$/.test(other)]
    if (isNumber && isOtherNumber) return Number(one) - Number(other)
    if (isNumber !== isOtherNumber) return isNumber ? -1 : 1
    return one < other ? -1 : 1
  }
  return left.length - right.length
}

/**
 * Reads conditions such as `<0.3.0` or `>=0.2.0 <0.3.0`, all of which must hold.
 * @returns whether a version fits; undefined: `range` cannot be read
 */
export function parseVersionRange(range: string): ((version: string) => boolean) | undefined {
  const conditions = range
    .trim()
    .split(/\s+/)
    .map((text) => conditionForm.exec(text))
  if (conditions.some((found) => !found || !versionForm.test(found[2]!))) return undefined
  return (version) =>
    conditions.every((found) => {
      const order = compareVersions(version, found![2]!)
      return order !== undefined && holds(found![1] ?? '=', order)
    })
}

function holds(operator: string, order: number): boolean {
  if (order === 0) return operator.includes('=')
  return operator.startsWith(order < 0 ? '<' : '>')
}
