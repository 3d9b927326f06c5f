import { afterAll, describe, expect, it } from 'vitest'
import { estimatesTable, StoredEstimates } from '../../../agent/disco/stored-estimates.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { silentLogger } from '../../support/silent-logger.ts'
import { tempDir } from '../../support/temp-dir.ts'

const dir = tempDir()
afterAll(() => dir[Symbol.dispose]())
let files = 0
const newFile = () => `${dir.path}/${files++}.sqlite`

function opened(file: string, use: (estimates: StoredEstimates) => void): void {
  const store = openDatabase(file, [estimatesTable])
  use(new StoredEstimates(store, silentLogger()))
  store.close()
}

describe('what answers have taught', () => {
  it('survives a restart, by server and model', () => {
    const file = newFile()
    opened(file, (estimates) => {
      for (let at = 1; at <= 100; at++) {
        estimates.remoteTtft('a').record(at * 10)
        estimates.promptTokens.record(at)
        estimates.answerTokens.record(2 * at)
        estimates.localTtft('m').record(at, 5 * at + 30)
      }
      estimates.save()
    })
    opened(file, (estimates) => {
      expect(estimates.remoteTtft('a').quantile(0.5)).toBeCloseTo(500, -2)
      expect(estimates.remoteTtft('b').weight).toBe(0)
      expect(estimates.promptTokens.mean).toBeCloseTo(51.5, -1)
      expect(estimates.answerTokens.mean).toBeCloseTo(103, -1)
      const { slope, intercept } = estimates.localTtft('m').line!
      expect([slope, intercept]).toEqual([expect.closeTo(5), expect.closeTo(30)])
    })
  })

  it('is stored every few answers', () => {
    const file = newFile()
    opened(file, (estimates) => {
      estimates.promptTokens.record(7)
      for (let at = 0; at < 8; at++) estimates.answered()
    })
    opened(file, ({ promptTokens }) => expect(promptTokens.mean).toBeCloseTo(7))
  })

  it('is learned anew where a row cannot be read, and bounded', () => {
    const file = newFile()
    opened(file, (estimates) => {
      for (let at = 0; at < 200; at++) estimates.remoteTtft(`${at}`).record(1)
      estimates.save()
    })
    const store = openDatabase(file, [estimatesTable])
    expect(store.prepare('SELECT count(*) AS rows FROM dispatch_estimates').get()).toEqual({ rows: 64 })
    store.prepare('UPDATE dispatch_estimates SET value = \'{"weight":-1,"quantiles":[2,1]}\'').run()
    expect(new StoredEstimates(store, silentLogger()).remoteTtft('199').weight).toBe(0)
    store.close()
  })
})
