import { expect, it } from 'vitest'
import { readManifest } from '../../../core/model/bundle/bundle.ts'
import { openBundle } from '../../../core/model/engine/open-bundle.ts'
import { compareWithReference } from '../../../core/model/engine/reference.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { buildDeeperModel } from '../../../lab/bench/hat/deeper-model.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { tempDir } from '../../support/temp-dir.ts'

it('the deeper model has more layers in its middle, and the answers of the demonstration model', async () => {
  using dir = tempDir()
  const deeper = await buildDeeperModel(dir.path, 15)
  expect((await readManifest(deeper)).parts.middle!.layers).toEqual([1, 15])
  const prompt = Array.from({ length: 40 }, (_, at) => 10 + ((at * 37) % 4_000))
  const answerOf = async (bundle: string, tokenIds: readonly number[]) => {
    const model = await openBundle(bundle, { parts: 'chain', threads: 1 })
    const compared = await compareWithReference(model.chain({ cuts: 'half' }), prompt, greedy, tokenIds)
    await model.release()
    return compared
  }
  const model = await openBundle(await ensureDemoBundle(), { parts: 'chain', threads: 1 })
  const chain = model.chain({ cuts: 'half' })
  const sequence = chain.createSequence()
  const tokenIds: number[] = []
  let ids = prompt
  for (let at = 0; at < 12; at++) {
    const logits = await chain.step([{ sequence, ids, select: 'last' }])
    ids = [logits.indexOf(Math.max(...logits))]
    tokenIds.push(...ids)
  }
  sequence.release()
  await model.release()
  expect(await answerOf(deeper, tokenIds)).toMatchObject({ identical: true })
  expect(await answerOf(deeper, [...tokenIds.slice(0, -1), 5])).toMatchObject({ identical: false })
}, 60_000)
