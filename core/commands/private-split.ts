import { rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { BrimError } from '../kit/base/errors.ts'
import type { Io } from '../kit/base/io.ts'
import { megabytes } from '../kit/base/megabytes.ts'
import { columns } from '../kit/cli/columns.ts'
import { splitRequestOf } from '../model/bundle/assess-model.ts'
import { fittingSplits } from '../model/bundle/auto-split.ts'
import { type BuildOptions, buildBundle } from '../model/bundle/build.ts'
import { BundleDraft } from '../model/bundle/bundle-draft.ts'
import { openCheckpoint } from '../model/bundle/checkpoint.ts'
import { measureParts } from '../model/engine/measure-parts.ts'
import { chooseDepth, type StrongestAttack, strongestOf } from '../model/privacy/choose-depth.ts'
import { type AuditedTexts, openAudit } from './privacy-audit.ts'
import { showProgress } from './progress.ts'

/** What a split lets a bridge recover, and costs a device. */
interface AuditedDepth {
  readonly split: number
  readonly recovery: StrongestAttack
  /** For weights and KV of one session. */
  readonly deviceBytes: number
  /** Of the device's layers and the head, for two chunks of a prompt (of 64 tokens) and 16 tokens of an answer. */
  readonly deviceS: number
}

export interface PrivateSplit {
  readonly split: number
  /** Those that were tried. */
  readonly depths: readonly AuditedDepth[]
}

interface PrivateSplitOptions extends Omit<AuditedTexts, 'wire' | 'train' | 'inverter'> {
  /** Largest share of the tokens that an attack may recover. */
  readonly bound: number
  /** Of a device. Undefined: any. */
  readonly deviceBytes: number | undefined
}

/**
 * The shallowest split that `brim privacy audit` finds private enough. Each that is tried is built beside the bundle, without drafters,
 * and removed.
 * @throws BrimError PRIVACY_UNREACHABLE, after all of them are on standard output; as building and auditing
 */
export async function privateSplit(
  build: Omit<BuildOptions, 'drafters' | 'split' | 'signal'>,
  { bound, deviceBytes, ...texts }: PrivateSplitOptions,
  json: boolean,
  io: Io,
): Promise<PrivateSplit> {
  // Not only after hours of measurements.
  await (await BundleDraft.begin(build.out, build.replace ?? false)).discard()
  await using checkpoint = await openCheckpoint(build.checkpoint)
  const fitting = new Map(fittingSplits(await splitRequestOf(checkpoint, { ...build, deviceBytes })))
  const out = `${resolve(build.out)}.audited`
  const trial = { ...build, out, adapter: undefined, draftHead: undefined, drafters: [], replace: true, signal: io.signal }
  const progress = showProgress(io)
  const measure = async (split: number): Promise<AuditedDepth> => {
    try {
      await buildBundle({ ...trial, split })
      await using audit = await openAudit(out, { ...texts, wire: 'fp16' }, io)
      const deviceS = await measureParts(audit.model, audit.manifest, ['input', 'output'])
      const found = await audit.run((share) => progress.update(`split ${split}`, share))
      return { split, recovery: strongestOf(found), deviceBytes: fitting.get(split)!, deviceS }
    } finally {
      await rm(out, { recursive: true, force: true })
    }
  }
  const { split, measured } = await chooseDepth([...fitting.keys()], bound, measure)
  progress.end()
  if (split !== undefined) {
    if (!json) io.err(depthsText(measured))
    return { split, depths: measured }
  }
  io.out(json ? JSON.stringify({ privacy: { bound, depths: measured } }) : depthsText(measured))
  const least = measured.reduce((a, b) => (b.recovery.share < a.recovery.share ? b : a))
  const found = `the least is ${percent(least.recovery.share)}, after layer ${least.split}`
  throw new BrimError('PRIVACY_UNREACHABLE', `no split keeps what is recovered at or below ${percent(bound)}: ${found}`, {
    hint: 'a bridge that has the weights inverts states of any depth (docs/privacy.md): run the bridge yourself, or use the mode local',
  })
}

const percent = (share: number) => `${Math.round(100 * share)} %`

const depthsText = (depths: readonly AuditedDepth[]): string =>
  columns([
    ['SPLIT', 'TOKENS FOUND', 'BY', 'DEVICE MEMORY', 'DEVICE TIME'],
    ...depths.map(({ split, recovery: { share, attack, text }, deviceBytes, deviceS }) => {
      return [
        `${split}`,
        `up to ${percent(share)}`,
        `${attack}, ${text}`,
        megabytes(deviceBytes),
        `${(1_000 * deviceS).toFixed(0)} ms`,
      ]
    }),
  ])
