import type { PartManifest } from '../../core/model/bundle/manifest.ts'
import type { Part, Sequence, StepItem } from '../../core/model/engine/contract.ts'
import { concatStates, type States, sliceStates } from '../../core/wire/protocol/states.ts'

const manifest: PartManifest = { layers: [1, 2], kvHeads: 1, headDim: 16, graphs: { '16': 'g' }, weights: [], golden: 'golden' }

export interface ScriptedPart extends Part {
  /** Sequences and rows of each step so far. */
  readonly steps: { sequence: Sequence; rows: number }[][]
  /** Lets one step end; later steps wait for the next call. */
  finishStep(): Promise<void>
  /** Steps whose items include this sequence fail. */
  failFor(sequence: Sequence): void
  /** The rows returned for this sequence hold NaN. */
  poison(sequence: Sequence): void
}

/** A part that fails or blocks on demand, which a real engine cannot. It returns the selected rows unchanged. */
export function scriptedPart(options: { manual?: boolean } = {}): ScriptedPart {
  const steps: ScriptedPart['steps'] = []
  const failing = new Set<Sequence>()
  const poisoned = new Set<Sequence>()
  const gates: (() => void)[] = []
  return {
    name: 'middle',
    manifest,
    steps,
    createSequence: () => plainSequence(),
    failFor: (sequence) => failing.add(sequence),
    poison: (sequence) => poisoned.add(sequence),
    async finishStep() {
      while (gates.length === 0) await new Promise((turn) => setImmediate(turn))
      gates.shift()?.()
      await new Promise((turn) => setImmediate(turn))
    },
    async step(items) {
      steps.push(items.map((item) => ({ sequence: item.sequence, rows: statesOf(item).rows })))
      if (options.manual) await new Promise<void>((finish) => gates.push(finish))
      if (items.some((item) => failing.has(item.sequence))) throw new Error('scripted failure')
      for (const item of items) (item.sequence as PlainSequence).append(statesOf(item).rows)
      return items.map((item) => {
        const states = selected(statesOf(item), item.select)
        return poisoned.has(item.sequence) ? { ...states, half: states.half.map(() => 0x7e00) } : states
      })
    },
  }
}

type PlainSequence = Sequence & { append(rows: number): void }

function plainSequence(): PlainSequence {
  let length = 0
  let held = 0
  return {
    get length() {
      return length
    },
    get held() {
      return held
    },
    get line() {
      return length
    },
    capacity: 64,
    bytes: 64 * 16 * 2 * 4,
    rowValues: 16 * 2,
    fixedBytes: 0,
    readRows: async () => {},
    reserve() {},
    claim(to) {
      length = to
      held = 0
      return true
    },
    writeRows(_, to) {
      held = Math.min(length, Math.max(held, to))
    },
    append: (rows) => {
      length += rows
      held = length
    },
    truncate: (to) => {
      length = to
      held = Math.min(held, to)
    },
    gather: (keep, rows) => {
      length = keep + rows.length
      held = length
    },
    copyPrefix: (_, to) => {
      length = to
      held = to
    },
    evict() {
      held = 0
    },
    release() {},
  }
}

function selected(states: States, select: StepItem['select']): States {
  if (select === 'all') return states
  const rows = select === 'none' ? [] : select === 'last' ? [states.rows - 1] : select
  return concatStates(
    rows.map((row) => sliceStates(states, row, row + 1)),
    states.width,
  )
}

function statesOf(item: StepItem): States {
  if ('ids' in item) throw new Error('this part needs states, not ids')
  return item.states
}
