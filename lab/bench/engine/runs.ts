import type { Format } from '../../../core/model/manifest.ts'
import { median } from '../../../core/policy/estimate/quantile.ts'
import type { Style } from './process.ts'

/** The samples of one measurement. */
export interface EngineRun {
  readonly measured: 'decode' | 'prefill' | 'packed' | 'separate' | 'build'
  readonly model: 'small' | 'qwen2.5-0.5b-shaped'
  readonly format: Format
  readonly style: Style
  /** Tokens before the decoded one, or length of the prompt. */
  readonly context: number
  /** Tokens per sample. */
  readonly tokens: number
  readonly samplesMs: number[]
}

/** The figures that have goals, from medians. */
export function summarise(runs: readonly EngineRun[]): Record<string, number> {
  const ms = (wanted: Partial<EngineRun>) => {
    const run = runs.find((each) => Object.entries(wanted).every(([key, value]) => each[key as keyof EngineRun] === value))
    if (!run) throw new Error(`no run for ${JSON.stringify(wanted)}`)
    return median(run.samplesMs)
  }
  const inPlaceOver = (style: Style, format: Format) => {
    const what = { measured: 'decode', model: 'small', format, context: 1024 } as const
    return ms({ ...what, style }) / ms({ ...what, style: 'in-place' })
  }
  const packedOverSeparate = (format: Format) => ms({ measured: 'separate', format }) / ms({ measured: 'packed', format })
  const qwen = 'qwen2.5-0.5b-shaped'
  return {
    inPlaceOverCopyingFp32: inPlaceOver('copying', 'fp32'),
    inPlaceOverCopyingInt4: inPlaceOver('copying', 'int4'),
    inPlaceOverGrowingFp32: inPlaceOver('growing', 'fp32'),
    inPlaceOverGrowingInt4: inPlaceOver('growing', 'int4'),
    packed8OverSeparateInt4: packedOverSeparate('int4'),
    packed8OverSeparateFp32: packedOverSeparate('fp32'),
    qwenDecodeTokensPerS: 1000 / ms({ measured: 'decode', model: qwen }),
    qwenBuildS: ms({ measured: 'build', model: qwen }) / 1000,
  }
}
