import { beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { BundleChoices, bundleChoicesTable } from '../../../agent/models/bundle-choices.ts'
import { openDatabase } from '../../../core/kit/store/open-database.ts'
import { tempDir } from '../../support/temp-dir.ts'

describe('the choice of a bundle', () => {
  let choices: BundleChoices

  beforeEach(() => {
    const dir = tempDir()
    const store = openDatabase(`${dir.path}/agent.sqlite`, [bundleChoicesTable])
    onTestFinished(() => {
      store.close()
      dir[Symbol.dispose]()
    })
    choices = new BundleChoices(store)
  })

  it('is the bundle that was activated last, for each role', () => {
    expect(choices.atStart('llm', 'qwen')).toBeUndefined()
    choices.choose('llm', 'aa', 'qwen')
    choices.choose('llm', 'bb', 'qwen')
    choices.choose('slm', 'cc', undefined)
    expect(choices.atStart('llm', 'qwen')).toBe('bb')
    expect(choices.atStart('slm', undefined)).toBe('cc')
  })

  it('stays without an option, and ends with another option for good', () => {
    choices.choose('llm', 'aa', 'qwen')
    expect(choices.atStart('llm', undefined)).toBe('aa')
    expect(choices.atStart('llm', 'llama')).toBeUndefined()
    expect(choices.atStart('llm', 'qwen')).toBeUndefined()
  })
})
