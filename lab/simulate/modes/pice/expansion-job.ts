import {
  DeviceExpansion,
  type DeviceExpansionInput,
  type RequestedSketch,
  type SentenceGroup,
  type SketchGroups,
} from '../../../../core/policy/pice/device-expansion.ts'
import { fittingSequences } from '../../../../core/policy/pice/pack-sequences.ts'
import { PackedDecoder, type SequencePart } from '../../device/packed-decoder.ts'
import type { SimulatedSmallModels } from '../../device/simulated-small-models.ts'
import { wholeModel } from '../../hardware/model-shape.ts'
import type { Simulation } from '../../kernel/simulation.ts'
import type { PiceSettings } from '../../scenario/pice-settings.ts'
import type { SimulatedDevice } from '../../world/simulated-device.ts'
import type { ExpansionPart } from './simulated-expansion.ts'
import { textBytes } from './text-bytes.ts'

/** Of the prompt that asks for a line, before the line itself, and after it; of one that asks for a further line. */
const instructionTokens = { before: 60, after: 8, next: 20 }

export interface ExpansionJobOptions {
  readonly simulation: Simulation
  readonly device: SimulatedDevice
  readonly models: SimulatedSmallModels
  readonly parts: readonly ExpansionPart[]
  readonly settings: Pick<PiceSettings, 'sharesPrefix' | 'sequences'>
  /** The bridge knows that the device has the job. */
  accepted(): void
  /** The bridge has everything. */
  ended(): void
}

/** A job `pice.expand` on its way to a device, in it as `DeviceExpansion` decides, and back. */
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

  /** The job is the only one on its device: the bridge gives it one at a time. */
  #begin(): void {
    const { models, settings } = this.#options
    const run = new DeviceExpansion({
      sketches: this.parts.map(({ request, missing }): RequestedSketch => {
        const { sketch, candidates, budgetMs } = request
        const { words, expectedTokens } = sketch
        return { words, expectedTokens, sentences: missing, candidates, budgetMs }
      }),
      models: models.speeds(true),
      current: models.current,
      isQueueEmpty: true,
      maxSequences: settings.sequences,
      waitedMs: 0,
    })
    this.#feed(run, { kind: 'begin' })
  }

  #feed(run: DeviceExpansion, input: DeviceExpansionInput): void {
    const [action] = run.handle(input, this.#options.simulation.nowMs)
    if (action?.kind === 'expand') this.#expandWith(run, action.model, action.work)
    else this.#send('up', 0, () => this.#end())
  }

  #expandWith(run: DeviceExpansion, model: string, work: readonly SketchGroups[]): void {
    const { models } = this.#options
    models.borrow(model, (release) => {
      if (this.#isOver) {
        release()
        return
      }
      this.#drops.push(release)
      this.#decode(run, model, work, () => {
        this.#drops.splice(this.#drops.indexOf(release), 1)
        release()
        this.#feed(run, { kind: 'expanded' })
      })
    })
  }

  #decode(run: DeviceExpansion, model: string, work: readonly SketchGroups[], done: () => void): void {
    const { device, models, simulation, settings } = this.#options
    const { sharesPrefix, sequences: maxSequences } = settings
    const shape = models.shapeOf(model)
    const positions = Math.max(...work.map(({ sketch }) => positionsOf(this.parts[sketch]!)))
    const { kvBytesPerPosition: bytesPerPosition } = wholeModel(shape)
    const width = fittingSequences(maxSequences, positions, { bytesPerPosition, fixedBytes: 0 }, models.freeBytes)
    const decoder = new PackedDecoder(device, shape, width)
    const beganMs = simulation.nowMs
    let left = work.reduce((sum, { groups }) => sum + groups.length, 0)
    const groupEnded = () => {
      left -= 1
      if (left > 0) return
      const { steps, sequences, outputTokens } = decoder.figures
      models.record(model, { sequences: sequences / steps, tokens: outputTokens, tookMs: simulation.nowMs - beganMs })
      done()
    }
    for (const { sketch, groups } of work) {
      const part = this.parts[sketch]!
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
        for (const { candidate, sentences } of groups) {
          const parts = partsOf(part, sentences, copiedTokens)
          add(parts, copiedTokens, (at) => {
            const sentence = sentences[at]!
            spent.devicePromptTokens += parts[at]!.promptTokens
            spent.deviceOutputTokens += parts[at]!.outputTokens
            run.handle({ kind: 'sentence', sketch, sentence, candidate }, simulation.nowMs)
            this.#send('up', parts[at]!.outputTokens, () => part.take(sentence, candidate), [part])
            if (at === sentences.length - 1) groupEnded()
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

/** What the prompts of all lines of a sketch begin with. */
const prefixTokens = ({ request: { sketch } }: ExpansionPart) =>
  sketch.promptTokens + sketch.sketchTokens + instructionTokens.before

/** Of a sequence, as expected. */
const positionsOf = (part: ExpansionPart) => {
  const { words, expectedTokens } = part.request.sketch
  return prefixTokens(part) + Math.max(1, Math.round((expectedTokens * part.missing.length) / words.length))
}

/** @param copied of the prefix, that the sequence has already */
function partsOf(pending: ExpansionPart, group: SentenceGroup['sentences'], copied: number): readonly SequencePart[] {
  const { words, tokens, sketchTokens } = pending.request.sketch
  const all = words.reduce((sum, own) => sum + own, 0)
  return group.map((sentence, at) => {
    const lineTokens = Math.max(1, Math.round((sketchTokens * words[sentence]!) / all))
    const own = lineTokens + (at === 0 ? instructionTokens.after : instructionTokens.next)
    return { promptTokens: own + (at === 0 ? prefixTokens(pending) - copied : 0), outputTokens: tokens[sentence]! }
  })
}
