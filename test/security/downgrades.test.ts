import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { SequenceFloors } from '../../agent/bundles/sequence-floors.ts'
import { InstallInput, inputApart, inputOf } from '../../core/wire/protocol/jobs.ts'
import { fresh } from '../support/shared.ts'
import { tempDir } from '../support/temp-dir.ts'

const dir = fresh(tempDir)
let floors: SequenceFloors
const path = () => join(dir.path, 'sequences.json')
beforeEach(() => {
  floors = new SequenceFloors(path())
})

const version = (sequence: number | undefined, series = 'software', allowDowngrade = false) => ({
  series,
  name: `${series}-${sequence}`,
  sequence,
  allowDowngrade,
})
function install(...change: Parameters<typeof version>): void {
  const wanted = version(...change)
  floors.require(wanted)
  floors.begin(wanted)
  floors.keep(wanted.name)
}
const refused = expect.objectContaining({ code: 'DOWNGRADE_REFUSED' })

describe('the number that a device has had', () => {
  it('does not count where it has had none', () => {
    for (const sequence of [undefined, 4, 4, 9]) install(sequence)
    expect(() => install(undefined)).toThrow(refused)
  })

  it('is one of each series', () => {
    install(9, 'bundle qwen')
    install(3, 'bundle llama')
    install(1)
    expect(() => install(8, 'bundle qwen')).toThrow(refused)
  })

  it('is not that of a version which the device did not keep', () => {
    install(4)
    floors.begin(version(9))
    install(5)
    floors.begin(version(9))
    floors.keep('another')
    install(6)
  })

  it('survives a restart of the agent', () => {
    install(4)
    floors = new SequenceFloors(path())
    expect(() => install(3)).toThrow(refused)
  })

  it('goes down to what an admin allows, and not further', () => {
    install(9)
    install(undefined, 'software', true)
    expect(() => install(8)).toThrow(refused)
    install(5, 'software', true)
    expect(() => install(4)).toThrow(refused)
    install(6)
  })

  it.each(['', '{', '{"v":1}', '{"v":1,"floors":{"software":"x"}}'])('is not forgotten where its file is damaged: %s', (text) => {
    install(9)
    writeFileSync(path(), text)
    expect(() => install(10)).toThrow(refused)
    install(10, 'software', true)
    expect(readFileSync(path(), 'utf8')).toContain('10')
    expect(() => install(9)).toThrow(refused)
  })
})

it('the word of an admin travels beside the input, which devices of release 0.2 read strictly', () => {
  const bundle = { modelId: 'a'.repeat(64), manifestSha256: 'b'.repeat(64) }
  const input = InstallInput.parse({ ...bundle, probe: { prompt: 'Hello' }, allowDowngrade: true })
  const message = inputApart('bundle.install', input)
  expect(message.input).toEqual(bundle)
  expect(inputOf(message)).toEqual(input)
  expect(inputOf(inputApart('bundle.install', bundle))).toEqual(bundle)
})
