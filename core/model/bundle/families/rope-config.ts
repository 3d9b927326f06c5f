import { z } from 'zod'
import { BrimError } from '../../../kit/base/errors.ts'
import type { Rope, RopeScaling } from '../architecture.ts'
import type { Dims } from '../manifest.ts'
import { unsupported } from './family.ts'

const positive = z.number().positive()
const count = z.int().min(1)

export const RopeConfig = z.looseObject({
  rope_type: z.string().optional(),
  /** The older spelling of rope_type. */
  type: z.string().optional(),
  rope_theta: positive.optional(),
  partial_rotary_factor: z.number().gt(0).max(1).nullish(),
  factor: positive.nullish(),
  low_freq_factor: positive.optional(),
  high_freq_factor: positive.optional(),
  original_max_position_embeddings: count.nullish(),
  // YaRN and LongRoPE.
  attention_factor: positive.nullish(),
  beta_fast: positive.nullish(),
  beta_slow: positive.nullish(),
  mscale: positive.nullish(),
  mscale_all_dim: positive.nullish(),
  truncate: z.boolean().nullish(),
  short_factor: z.array(positive).optional(),
  long_factor: z.array(positive).optional(),
})
type RopeConfig = z.infer<typeof RopeConfig>

interface PositionFields {
  readonly rope_scaling?: RopeConfig | null | undefined
  readonly rope_parameters?: RopeConfig | null | undefined
  readonly rope_theta?: number | null | undefined
  readonly partial_rotary_factor?: number | null | undefined
  readonly max_position_embeddings: number
  readonly original_max_position_embeddings?: number | null | undefined
}

/**
 * As in transformers 5, a rope_scaling that is not empty replaces rope_parameters, including its theta.
 * @param own in place of both: of one kind of layers
 * @throws BrimError ARCHITECTURE_UNSUPPORTED, CHECKPOINT_INVALID
 */
export function readRope(config: PositionFields, dims: Dims, own?: unknown): Rope {
  const { rope_scaling: older, rope_parameters: newer } = config
  const rope = own ? RopeConfig.parse(own) : older && Object.keys(older).length > 0 ? older : (newer ?? {})
  const theta = rope.rope_theta ?? config.rope_theta ?? 10_000
  const rotated = 2 * Math.floor((dims.headDim * (rope.partial_rotary_factor ?? config.partial_rotary_factor ?? 1)) / 2)
  const { scaling, magnitude } = readScaling(rope, config, rotated)
  return { theta, scaling, ...(rotated === dims.headDim ? {} : { rotated }), ...(magnitude === 1 ? {} : { magnitude }) }
}

interface Scaled {
  readonly scaling: RopeScaling
  readonly magnitude: number
}

function readScaling(rope: RopeConfig, config: PositionFields, rotated: number): Scaled {
  const kind = rope.rope_type ?? rope.type ?? 'default'
  const requireField = <Name extends keyof RopeConfig>(name: Name): NonNullable<RopeConfig[Name]> => {
    const value = rope[name]
    if (value == null) throw new BrimError('CHECKPOINT_INVALID', `config.json: ${kind} rope scaling lacks ${String(name)}`)
    return value as NonNullable<RopeConfig[Name]>
  }
  const original = rope.original_max_position_embeddings ?? config.original_max_position_embeddings
  const plain = (scaling: RopeScaling): Scaled => ({ scaling, magnitude: 1 })
  switch (kind) {
    case 'default':
    // The frequencies change beyond max_position_embeddings only, where a bundle's context ends.
    case 'dynamic':
      return plain({ kind: 'none' })
    case 'linear':
      return plain({ kind: 'linear', factor: requireField('factor') })
    case 'llama3':
      return plain({
        kind: 'llama3',
        factor: requireField('factor'),
        lowFreqFactor: requireField('low_freq_factor'),
        highFreqFactor: requireField('high_freq_factor'),
        originalPositions: requireField('original_max_position_embeddings'),
      })
    case 'yarn': {
      const factor = original ? (rope.factor ?? config.max_position_embeddings / original) : requireField('factor')
      return {
        scaling: {
          kind: 'yarn',
          factor,
          originalPositions: original ?? config.max_position_embeddings,
          betaFast: rope.beta_fast ?? 32,
          betaSlow: rope.beta_slow ?? 1,
          truncate: rope.truncate ?? true,
        },
        magnitude: rope.attention_factor ?? yarnMagnitude(factor, rope),
      }
    }
    case 'su':
    case 'longrope':
      return longRope(rope, config, original ?? config.max_position_embeddings, rotated, requireField)
    default:
      throw unsupported(`rope scaling of type ${kind} (only default, linear, dynamic, llama3, yarn and longrope)`)
  }
}

function yarnMagnitude(factor: number, { mscale, mscale_all_dim: all }: RopeConfig): number {
  const of = (scale: number) => (factor <= 1 ? 1 : 0.1 * scale * Math.log(factor) + 1)
  return mscale && all ? of(mscale) / of(all) : of(1)
}

/** The tables are those of the bundle's context: a model for long contexts computes short prompts with its long factors, as vLLM does. */
function longRope(
  rope: RopeConfig,
  { max_position_embeddings: context }: PositionFields,
  original: number,
  rotated: number,
  requireField: (name: 'short_factor' | 'long_factor') => readonly number[],
): Scaled {
  const name = context > original ? 'long_factor' : 'short_factor'
  const factors = requireField(name)
  if (factors.length !== rotated / 2)
    throw new BrimError('CHECKPOINT_INVALID', `config.json: ${name} has ${factors.length} factors for ${rotated / 2} frequencies`)
  const stretch = context / original
  const own = stretch <= 1 ? 1 : Math.sqrt(1 + Math.log(stretch) / Math.log(original))
  return { scaling: { kind: 'factors', factors }, magnitude: rope.attention_factor ?? own }
}
