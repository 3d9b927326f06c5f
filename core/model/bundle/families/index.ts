import { z } from 'zod'
import { BrimError } from '../../../kit/base/errors.ts'
import type { Architecture } from '../architecture.ts'
import { parseDecoderConfig } from './decoder-config.ts'
import type { Family } from './family.ts'
import { llama } from './llama.ts'
import { qwen2 } from './qwen2.ts'

const families: readonly Family[] = [llama, qwen2]

/**
 * @param config config.json, parsed
 * @throws BrimError ARCHITECTURE_UNSUPPORTED listing the supported architectures, CHECKPOINT_INVALID
 */
export function readArchitecture(config: unknown): Architecture {
  const { architectures } = parseDecoderConfig(z.looseObject({ architectures: z.array(z.string()).min(1) }), config)
  const family = families.find((candidate) => candidate.architectures.some((name) => architectures.includes(name)))
  if (family) return family.read(config)
  const supported = families.flatMap((candidate) => candidate.architectures).join(', ')
  throw new BrimError(
    'ARCHITECTURE_UNSUPPORTED',
    `config.json: Brim does not support the architecture ${architectures.join(', ')}`,
    { hint: `supported architectures: ${supported}` },
  )
}
