/** The value of a JSON column; undefined: the row is damaged, which must not keep others from being read. */
export function storedJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
