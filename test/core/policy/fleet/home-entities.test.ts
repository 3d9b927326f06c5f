import { expect, it } from 'vitest'
import { homeEntities } from '../../../../core/policy/fleet/home-entities.ts'
import { HomeState } from '../../../../core/wire/protocol/home.ts'

it('every figure of a device that Home Assistant gets has an entity', () => {
  const { v: _, ...fields } = HomeState.shape
  const shown = new Set(Object.values(homeEntities).map(({ field }) => field as string))
  expect([...shown].sort()).toEqual(Object.keys(fields).sort())
})
