import { z } from 'zod'
import { BrimError } from '../../../kit/base/errors.ts'
import type { Architecture } from '../architecture.ts'
import { parseDecoderConfig } from './decoder-config.ts'
import type { Family } from './family.ts'
import { gemma3 } from './gemma3.ts'
import { granite } from './granite.ts'
import { llama } from './llama.ts'
import { mistral } from './mistral.ts'
import { olmo2 } from './olmo2.ts'
import { phi3 } from './phi3.ts'
import { qwen2 } from './qwen2.ts'
import { qwen3 } from './qwen3.ts'
import { qwen35 } from './qwen3-5.ts'
import { refusedFamilies } from './refused.ts'
import { smollm3 } from './smollm3.ts'

const families: readonly Family[] = [llama, qwen2, qwen3, qwen35, mistral, smollm3, phi3, gemma3, granite, olmo2]

/**
 * @param config config.json, parsed
 * @throws BrimError ARCHITECTURE_UNSUPPORTED naming what is missing, and a checkpoint near it; CHECKPOINT_INVALID
 */
export function readArchitecture(config: unknown): Architecture {
  const { architectures } = parseDecoderConfig(z.looseObject({ architectures: z.array(z.string()).min(1) }), config)
  const family = families.find((candidate) => candidate.architectures.some((name) => architectures.includes(name)))
  if (family) return family.read(config)
  const [name = ''] = architectures
  const refused = refusedFamilies.find(({ architectures: own }) => own.test(name))
  if (refused)
    throw new BrimError('ARCHITECTURE_UNSUPPORTED', `config.json: Brim does not support ${name}: it has ${refused.missing}`, {
      hint: `the nearest that is supported: ${refused.nearest}`,
    })
  const supported = families.flatMap((candidate) => candidate.architectures).join(', ')
  throw new BrimError(
    'ARCHITECTURE_UNSUPPORTED',
    `config.json: Brim does not support the architecture ${architectures.join(', ')}`,
    { hint: `supported architectures: ${supported}` },
  )
}
