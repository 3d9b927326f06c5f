import { BrimError } from '../../kit/base/errors.ts'
import { readJsonFile } from './checkpoint.ts'
import { type Pooling, poolings } from './manifest.ts'

/** Where models for embeddings say how they pool, as sentence-transformers writes it. */
export const poolingFile = '1_Pooling/config.json'

/** As the checkpoint says; decoders whose checkpoint does not are read at their last token. @throws BrimError ARCHITECTURE_UNSUPPORTED, CHECKPOINT_INVALID */
export async function readPooling(folder: string): Promise<Pooling> {
  const config = (await readJsonFile(folder, poolingFile)) ?? {}
  const modes = Object.entries(config).flatMap(([key, value]) => {
    if (key === 'pooling_mode' && typeof value === 'string') return [value]
    return value === true && key.startsWith('pooling_mode_') ? [key.slice('pooling_mode_'.length)] : []
  })
  const found = modes.map((mode) => ({ mean_tokens: 'mean', mean: 'mean', lasttoken: 'last' })[mode] ?? mode)
  const [only = 'last', ...others] = found
  const pooling = poolings.find((each) => each === only)
  if (pooling && others.length === 0) return pooling
  throw new BrimError('ARCHITECTURE_UNSUPPORTED', `${poolingFile} asks for pooling by ${found.join(' and ')}`, {
    hint: `supported is one of ${poolings.join(', ')}: choose one with --embedding, or take another model`,
  })
}
