import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { buildBundle } from '../../../../core/model/bundle/build.ts'
import { tinyLlamaConfig, writeRandomCheckpoint } from '../../../../lab/random-checkpoint.ts'
import { isMissing } from '../../../support/prerequisites.ts'
import { tempDir } from '../../../support/temp-dir.ts'

/** A checkpoint of 600 MB: as fp32 it would be 1.2 GB. */
const config = {
  ...tinyLlamaConfig,
  hidden_size: 1024,
  intermediate_size: 4096,
  num_hidden_layers: 10,
  num_attention_heads: 16,
  num_key_value_heads: 4,
  vocab_size: 72_000,
}

/** Anonymous memory of this process, in MB. */
function anonymousMb(): number {
  const status = readFileSync('/proc/self/status', 'utf8')
  return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024
}

const missing = isMissing('/proc/self/status', existsSync('/proc/self/status'))

it.skipIf(missing)(
  'builds a bundle from a checkpoint of 600 MB in 200 MB of memory',
  async () => {
    using dir = tempDir()
    const checkpoint = join(dir.path, 'checkpoint')
    await writeRandomCheckpoint(checkpoint, { config, dtype: 'BF16', seed: 1 })
    const beforeMb = anonymousMb()
    let peakMb = 0
    const onEvent = () => {
      peakMb = Math.max(peakMb, anonymousMb())
    }
    const { manifest } = await buildBundle({ checkpoint, out: join(dir.path, 'bundle'), split: 1, format: 'int4', onEvent })
    expect(manifest.card.parameters).toBeGreaterThan(290e6)
    expect(peakMb - beforeMb).toBeLessThan(200)
    console.log(
      `${Math.round(manifest.card.parameters / 1e6)} M parameters, ${Math.round(peakMb - beforeMb)} MB above the runtime's own`,
    )
  },
  120_000,
)
