/** Whether an answer repeats itself: more than half of its 4-grams occur earlier in it, as scripts/train/evaluate.py counts. */
export function isLooping(answer: readonly number[]): boolean {
  const grams = Array.from({ length: Math.max(0, answer.length - 3) }, (_, at) => answer.slice(at, at + 4).join())
  return grams.length - new Set(grams).size > grams.length / 2
}
