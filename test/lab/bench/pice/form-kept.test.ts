import { expect, it } from 'vitest'
import { formKept } from '../../../../lab/bench/pice/form-kept.ts'

const asks = (content: string) => [{ role: 'user', content }]

it('an answer keeps its form if it has each marker of its sketch, in order', () => {
  const sketch = ['# Tips', '1. **Light:** noon', '2. **Water:** rain', '| a | b |']
  const answer = '# Tips\n\n1. **Light:** Go out at noon.\n2. **Water:** Use rain.\n\n| a | b |'
  expect(formKept(sketch, asks('Why?'), answer)).toBe(true)
  for (const lost of ['# ', '1. ', '**Light:** ', '2. ', '| a | b |'])
    expect(formKept(sketch, asks('Why?'), answer.replace(lost, ''))).toBe(false)
  expect(formKept(['1. one', '2. two'], asks('Why?'), '2. Two.\n1. One.')).toBe(false)
})

it('its form is that of the request', () => {
  expect(formKept(['one', 'two'], asks('A numbered list, please'), 'One. Two.')).toBe(false)
  expect(formKept(['one', 'two'], asks('A numbered list, please'), '1. One.\n2. Two.')).toBe(true)
  expect(formKept(['- one', '- two'], asks('No lists, please'), 'One. Two.')).toBe(true)
})
