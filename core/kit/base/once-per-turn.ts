/** @returns a function after whose calls `work` runs once, in the next turn of the event loop: what happens in one turn is done together */
export function oncePerTurn(work: () => void): () => void {
  let isDue = false
  return () => {
    if (isDue) return
    isDue = true
    setImmediate(() => {
      isDue = false
      work()
    })
  }
}
