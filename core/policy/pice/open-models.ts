export interface OpenModelState {
  readonly name: string
  readonly bytes: number
  readonly isBorrowed: boolean
  /** Time of its last use. */
  readonly usedMs: number
}

export interface ModelMemory {
  /** For all open small models together. */
  readonly limitBytes: number
  /** Of the machine, now. */
  readonly freeBytes: number
  /** That must stay free when a model is opened beside another. */
  readonly reserveBytes: number
}

/**
 * `open`: after these have been closed. `wait`: until a borrowed model is returned. `refuse`: the model alone exceeds the limit.
 */
export type OpeningPlan =
  | { readonly kind: 'open'; readonly close: readonly string[] }
  | { readonly kind: 'wait' }
  | { readonly kind: 'refuse' }

/**
 * How a small model of this size comes into memory: models that are not borrowed are closed for it, the one unused longest
 * first, and no more of them than necessary. One model may always be open, however little memory is free.
 */
export function planOpening(bytes: number, open: readonly OpenModelState[], memory: ModelMemory): OpeningPlan {
  const { limitBytes, freeBytes, reserveBytes } = memory
  if (bytes > limitBytes) return { kind: 'refuse' }
  const idle = open.filter(({ isBorrowed }) => !isBorrowed).sort((a, b) => a.usedMs - b.usedMs)
  let openBytes = open.reduce((sum, model) => sum + model.bytes, 0)
  let free = freeBytes
  for (let closed = 0; ; closed++) {
    const isAlone = closed === open.length
    if (isAlone || (openBytes + bytes <= limitBytes && bytes + reserveBytes <= free))
      return { kind: 'open', close: idle.slice(0, closed).map(({ name }) => name) }
    const next = idle[closed]
    if (!next) return { kind: 'wait' }
    openBytes -= next.bytes
    free += next.bytes
  }
}
