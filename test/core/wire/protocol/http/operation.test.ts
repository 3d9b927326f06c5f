import { describe, expect, it } from 'vitest'
import { bundleOperations } from '../../../../../core/wire/protocol/http/bundles.ts'
import { deviceOperations } from '../../../../../core/wire/protocol/http/devices.ts'
import { jobOperations } from '../../../../../core/wire/protocol/http/jobs.ts'
import { urlOf } from '../../../../../core/wire/protocol/http/operation.ts'
import { allOperations } from '../../../../../core/wire/protocol/http/operations.ts'

describe('the URL of an operation', () => {
  it('percent-encodes each parameter, so that none adds a path segment', () => {
    expect(urlOf(deviceOperations.showCommand, { id: 'a/b', command: '../c?d' })).toBe('/v1/devices/a%2Fb/commands/..%2Fc%3Fd')
  })

  it('keeps the slashes of the rest of a path', () => {
    expect(urlOf(bundleOperations.file, { modelId: 'm', '*': 'parts/a b.onnx' })).toBe('/v1/bundles/m/parts/a%20b.onnx')
  })

  it('leaves out query parameters that are undefined', () => {
    expect(urlOf(jobOperations.list, {}, { state: undefined, limit: 5, dead: true })).toBe('/v1/jobs?limit=5&dead=true')
    expect(urlOf(jobOperations.list, {}, { state: undefined })).toBe('/v1/jobs')
  })
})

it('no two operations have the same method and path', () => {
  const all = Object.values(allOperations).flatMap((group) => Object.values(group).map(({ method, path }) => `${method} ${path}`))
  expect(all.length).toBeGreaterThan(30)
  expect(new Set(all).size).toBe(all.length)
})
