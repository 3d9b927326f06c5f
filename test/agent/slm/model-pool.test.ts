import { beforeEach, describe, expect, it } from 'vitest'
import type { LocalModel } from '../../../agent/slm/local-model.ts'
import { ModelPool } from '../../../agent/slm/model-pool.ts'
import type { ModelSource } from '../../../agent/slm/model-source.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { silentLogger } from '../../support/silent-logger.ts'

const source = (name: string, bytes: number, version = '1'): ModelSource => {
  const dims = { layers: 1, hidden: 8, heads: 1, kvHeads: 1, headDim: 8, ffn: 8, vocab: 16, contextLimit: 32 }
  return { name, bytes, dims, modelId: name, folder: `/bundles/${name}`, manifestSha256: `${name} ${version}` }
}
const never = new AbortController().signal
/** Lets everything that is ready run. */
const settle = () => new Promise((resolve) => setImmediate(resolve))

describe('the pool of small models', () => {
  /** What was opened and closed, in order. */
  let log: string[]
  let failing: string | undefined
  let pool: ModelPool

  beforeEach(() => {
    log = []
    failing = undefined
    let nowMs = 0
    pool = new ModelPool({
      async open(folder, kept) {
        if (folder === failing) throw new BrimError('BUNDLE_CORRUPT', 'broken')
        log.push(`open ${folder}${kept ? ' again' : ''}`)
        return {
          text: {} as LocalModel['text'],
          speed: {} as LocalModel['speed'],
          close: async () => void log.push(`close ${folder}`),
        } as LocalModel & { close(): Promise<void> }
      },
      settings: { limitBytes: 100, reserveBytes: 0 },
      freeBytes: () => 1_000,
      clock: { nowMs: () => nowMs++, sleep: async () => {} },
      logger: silentLogger(),
    })
    pool.setSources([source('a', 30), source('b', 40), source('c', 80), source('huge', 101)])
  })

  const use = async (name: string) => (await pool.borrow(name, never)).release()

  it('opens a model once, as long as memory allows', async () => {
    const first = await pool.borrow('a', never)
    const second = await pool.borrow('a', never)
    await use('b')
    expect([first.loadMs > 0, second.loadMs]).toEqual([true, 0])
    expect(log).toEqual(['open /bundles/a', 'open /bundles/b'])
    expect(pool.current).toBe('b')
  })

  it('closes the models unused longest for another, and keeps their tokenizers', async () => {
    for (const name of ['a', 'b', 'a', 'c', 'a']) await use(name)
    expect(log).toEqual([
      'open /bundles/a',
      'open /bundles/b',
      'close /bundles/b',
      'close /bundles/a',
      'open /bundles/c',
      'close /bundles/c',
      'open /bundles/a again',
    ])
  })

  it('waits for a borrowed model, in the order of the requests', async () => {
    const first = await pool.borrow('a', never)
    const order: string[] = []
    const large = pool.borrow('c', never).then((lent) => {
      order.push('c')
      return lent
    })
    // The open model too: else a stream of requests for it would keep the other one waiting for ever.
    const again = pool.borrow('a', never).then(() => order.push('a'))
    await settle()
    expect(order).toEqual([])
    first.release()
    const lent = await large
    expect(pool.isOpen('a')).toBe(false)
    lent.release()
    await again
    expect(order).toEqual(['c', 'a'])
  })

  it('gives up waiting when the request is canceled, and serves the next', async () => {
    const first = await pool.borrow('a', never)
    const cancel = new AbortController()
    const large = pool.borrow('c', cancel.signal)
    const next = pool.borrow('b', never)
    cancel.abort(new Error('canceled'))
    await expect(large).rejects.toThrow('canceled')
    expect((await next).model).toBeDefined()
    first.release()
    expect(log).toEqual(['open /bundles/a', 'open /bundles/b'])
  })

  it('returns a model once, however often it is released', async () => {
    const [first, second] = [await pool.borrow('a', never), await pool.borrow('a', never)]
    first.release()
    first.release()
    const large = pool.borrow('c', never)
    await settle()
    expect(pool.isOpen('a')).toBe(true)
    second.release()
    await large
  })

  it('refuses unknown models and those beyond the limit, and opens another after a broken one', async () => {
    await expect(pool.borrow('nosuch', never)).rejects.toMatchObject({ code: 'MODEL_MISSING' })
    await expect(pool.borrow('huge', never)).rejects.toMatchObject({
      code: 'OUT_OF_MEMORY',
      hint: expect.stringContaining('slmBytes'),
    })
    failing = '/bundles/a'
    await expect(use('a')).rejects.toMatchObject({ code: 'BUNDLE_CORRUPT' })
    await use('b')
    expect(pool.current).toBe('b')
  })

  it('replaces a version when its last borrower returns it', async () => {
    const old = await pool.borrow('a', never)
    pool.setSources([source('a', 30, '2')])
    await settle()
    expect(log).toEqual(['open /bundles/a'])
    const fresh = await pool.borrow('a', never)
    expect(fresh.model).not.toBe(old.model)
    old.release()
    await settle()
    expect(log).toEqual(['open /bundles/a', 'open /bundles/a', 'close /bundles/a'])
    await pool.close()
    await expect(pool.borrow('a', never)).rejects.toMatchObject({ code: 'CANCELED' })
  })
})
