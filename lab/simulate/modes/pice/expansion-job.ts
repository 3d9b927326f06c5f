import { chooseSources, groupSentences, type SketchShape } from '../../../../core/policy/pice/expansion-groups.ts'
import type { DeviceSmallModels } from '../../device/device-small-models.ts'
import { fittingSequences, PackedDecoder, type SequencePart } from '../../device/packed-decoder.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { ExpansionPart } from './expansion-request.ts'
import { textBytes } from './text-bytes.ts'

/** Of the prompt that asks for a line, before the line itself, and after it; of one that asks for a further line. */
const instructionTokens = { before: 60, after: 8, next: 20 }

export interface ExpansionJobOptions {
  readonly simulation: Simulation
  readonly device: SimulatedDevice
  readonly models: DeviceSmallModels
  readonly parts: readonly ExpansionPart[]
  readonly settings: Pick<PiceSettings, 'sharesPrefix' | 'sequences'>
  /** The bridge knows that the device has the job. */
  accepted(): void
  /** The bridge has everything. */
  ended(): void
}

/** A job `pice.expand` on its way to a device, in it, and back: as agent/pice/expand.ts carries it out. */
export class ExpansionJob {
  readonly device: SimulatedDevice
  readonly parts: readonly ExpansionPart[]
  readonly #options: ExpansionJobOptions
  readonly #drops: (() => void)[] = []
  #isOver = false

  constructor(options: ExpansionJobOptions) {
    const { device, parts } = options
    this.#options = options
    this.device = device
    this.parts = parts
    const tokens = parts.reduce((sum, { request }) => sum + request.sketch.promptTokens + request.sketch.sketchTokens, 0)
    this.#send('down', tokens, () => {
      this.#send('up', 0, () => options.accepted())
      this.#begin()
    })
  }

  /** Nothing more is called. */
  cancel(): void {
    this.#isOver = true
    for (const drop of this.#drops) drop()
  }

  #begin(): void {
    const { simulation, models, settings } = this.#options
    const maxSequences = settings.sequences
    const beganMs = simulation.nowMs
    const shapes = this.parts.map(({ request, missing }): SketchShape => {
      const { sketch, candidates, budgetMs } = request
      const { words, expectedTokens } = sketch
      return { words, expectedTokens, sentences: missing, candidates, budgetS: budgetMs / 1_000 }
    })
    const terms = {
      models: models.speeds(true),
      current: models.current,
      isQueueEmpty: true,
      maxSequences,
    }
    const sources = chooseSources(shapes, terms)
    const names = [...new Set(sources.map(({ model }) => model))]
    const expandNext = (): void => {
      const name = names.shift()
      if (name === undefined) {
        this.#send('up', 0, () => this.#end())
        return
      }
      models.borrow(name, (release) => {
        if (this.#isOver) {
          release()
          return
        }
        this.#drops.push(release)
        const spentS = (simulation.nowMs - beganMs) / 1_000
        const speed = terms.models.find(({ model }) => model === name)!
        const work = this.parts.flatMap((part, at) => {
          const shape = { ...shapes[at]!, budgetS: shapes[at]!.budgetS - spentS }
          return sources
            .slice(0, part.request.candidates)
            .filter(({ model }) => model === name)
            .map(() => ({ part, groups: groupSentences(shape, shape.sentences, speed, maxSequences) }))
        })
        this.#expandWith(name, work, () => {
          this.#drops.splice(this.#drops.indexOf(release), 1)
          release()
          expandNext()
        })
      })
    }
    expandNext()
  }

  #expandWith(name: string, work: readonly SketchGroups[], done: () => void): void {
    const { device, models, simulation, settings } = this.#options
    const { sharesPrefix, sequences: maxSequences } = settings
    const shape = models.shapeOf(name)
    const positions = Math.max(...work.map(({ part }) => prefixTokens(part) + part.expectedTokens))
    const decoder = new PackedDecoder(device, shape, Math.min(maxSequences, fittingSequences(shape, positions, models.freeBytes)))
    const beganMs = simulation.nowMs
    let left = work.reduce((sum, { groups }) => sum + groups.length, 0)
    const groupEnded = () => {
      left -= 1
      if (left > 0) return
      const { steps, sequences, outputTokens } = decoder.figures
      models.record(name, { sequences: sequences / steps, tokens: outputTokens, tookMs: simulation.nowMs - beganMs })
      done()
    }
    for (const { part, groups } of work) {
      const { work: spent } = part.request.answer
      const isShared = sharesPrefix && groups.length > 1
      const copiedTokens = isShared ? prefixTokens(part) : 0
      const add = (parts: readonly SequencePart[], copied: number, partEnded: (at: number) => void) =>
        this.#drops.push(
          decoder.add({
            copiedTokens: copied,
            parts,
            streams: false,
            partEnded,
            spent: (joules) => {
              spent.joules += joules
            },
          }),
        )
      const addGroups = () => {
        for (const group of groups) {
          const parts = partsOf(part, group, copiedTokens)
          add(parts, copiedTokens, (at) => {
            spent.devicePromptTokens += parts[at]!.promptTokens
            spent.deviceOutputTokens += parts[at]!.outputTokens
            this.#send('up', parts[at]!.outputTokens, () => part.take(group[at]!), [part])
            if (at === group.length - 1) groupEnded()
          })
        }
      }
      if (!isShared) addGroups()
      else {
        spent.devicePromptTokens += copiedTokens
        add([{ promptTokens: copiedTokens, outputTokens: 0 }], 0, addGroups)
      }
    }
  }

  /** @param parts for whose answers it is sent */
  #send(direction: 'up' | 'down', tokens: number, arrived: () => void, parts = this.parts): void {
    const { link, energy } = this.device
    const radioS = link.send(direction, textBytes(tokens), () => {
      if (!this.#isOver) arrived()
    })
    const joules = energy.radio(radioS)
    for (const { request } of parts) request.answer.work.joules += joules / parts.length
  }

  #end(): void {
    this.#isOver = true
    this.#options.ended()
  }
}

interface SketchGroups {
  readonly part: ExpansionPart
  /** Lines that are expanded one after the other in one sequence. */
  readonly groups: readonly (readonly number[])[]
}

/** What the prompts of all lines of a sketch begin with. */
const prefixTokens = ({ request: { sketch } }: ExpansionPart) =>
  sketch.promptTokens + sketch.sketchTokens + instructionTokens.before

/** @param copied of the prefix, that the sequence has already */
function partsOf(pending: ExpansionPart, group: readonly number[], copied: number): readonly SequencePart[] {
  const { words, tokens, sketchTokens } = pending.request.sketch
  const all = words.reduce((sum, own) => sum + own, 0)
  return group.map((sentence, at) => {
    const lineTokens = Math.max(1, Math.round((sketchTokens * words[sentence]!) / all))
    const own = lineTokens + (at === 0 ? instructionTokens.after : instructionTokens.next)
    return { promptTokens: own + (at === 0 ? prefixTokens(pending) - copied : 0), outputTokens: tokens[sentence]! }
  })
}
