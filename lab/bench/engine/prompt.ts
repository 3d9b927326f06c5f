/** The same prompt for both engines. */
export function promptIds(tokens: number, vocab: number): number[] {
  return Array.from({ length: tokens }, (_, i) => (i * 7919 + 11) % vocab)
}
